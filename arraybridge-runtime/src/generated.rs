//! What the tables expand to: the enum of the frameworks, a static for each, and a converter for
//! every ordered pair.

arraybridge_macros::frameworks!();
