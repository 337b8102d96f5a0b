//! The location of a file's pixels, and the meaning of their values.

use roxmltree::Document;
use tiff_reader::{Ifd, TagValue};

const SCALE: u16 = 33550;
const TIE_POINTS: u16 = 33922;
const MATRIX: u16 = 34264;
const GEO_KEYS: u16 = 34735;
const GDAL_METADATA: u16 = 42112;
const GDAL_NODATA: u16 = 42113;

const MODEL_TYPE: u16 = 1024;
const RASTER_TYPE: u16 = 1025;
const GEODETIC_CRS: u16 = 2048;
const PROJECTED_CRS: u16 = 3072;

pub struct Georeference {
    /// x = a * column + b * row + c, y = d * column + e * row + f, of the pixels' corners.
    pub transform: Option<[f64; 6]>,
    /// The EPSG code of the coordinate system, if it has one.
    pub epsg: Option<u16>,
    /// The value of missing pixels.
    pub nodata: Option<f64>,
    /// Each band's physical value is scale * pixel + offset.
    pub scales: Vec<f64>,
    pub offsets: Vec<f64>,
    pub descriptions: Vec<Option<String>>,
}

impl Georeference {
    pub fn of(image: &Ifd, bands: usize) -> Georeference {
        let keys = image.tag(GEO_KEYS).and_then(|tag| tag.value.as_u16_slice()).unwrap_or(&[]);
        let key = |wanted: u16| {
            let mut entries = keys.chunks_exact(4).skip(1);
            entries.find(|entry| entry[0] == wanted && entry[1] == 0).map(|entry| entry[3])
        };
        // A user-defined projected system is not the geodetic system that it is based on.
        let code = match key(MODEL_TYPE) {
            Some(1) => key(PROJECTED_CRS),
            Some(_) => key(GEODETIC_CRS),
            None => key(PROJECTED_CRS).or(key(GEODETIC_CRS)),
        };
        let mut place = Georeference {
            transform: transform(image, key(RASTER_TYPE) == Some(2)),
            epsg: code.filter(|code| (1..32767).contains(code)),
            nodata: text(image, GDAL_NODATA).and_then(|text| text.parse().ok()),
            scales: vec![1.0; bands],
            offsets: vec![0.0; bands],
            descriptions: vec![None; bands],
        };
        if let Some(metadata) = text(image, GDAL_METADATA) {
            place.describe(metadata);
        }
        place
    }

    /// Reads `<Item sample="0" role="scale">0.1</Item>`. Malformed items are ignored, as in GDAL.
    fn describe(&mut self, metadata: &str) {
        let Ok(document) = Document::parse(metadata) else { return };
        for item in document.descendants().filter(|node| node.has_tag_name("Item")) {
            let band = item.attribute("sample").and_then(|band| band.parse::<usize>().ok());
            let (Some(band), Some(text)) = (band, item.text()) else { continue };
            let number = text.trim().parse();
            match (item.attribute("role"), number) {
                (Some("scale"), Ok(number)) => set(&mut self.scales, band, number),
                (Some("offset"), Ok(number)) => set(&mut self.offsets, band, number),
                (Some("description"), _) => {
                    set(&mut self.descriptions, band, Some(unescaped(text)));
                }
                _ => {}
            }
        }
    }

    /// The transform of an overview that has fewer pixels.
    pub fn rescale(&mut self, across: f64, down: f64) {
        if let Some([a, b, _, d, e, _]) = &mut self.transform {
            (*a, *b, *d, *e) = (*a * across, *b * down, *d * across, *e * down);
        }
    }
}

fn set<T>(values: &mut [T], band: usize, value: T) {
    if let Some(place) = values.get_mut(band) {
        *place = value;
    }
}

/// GDAL escapes the text of an item before it writes the item as XML.
fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&amp;", "&")
}

fn text(image: &Ifd, tag: u16) -> Option<&str> {
    match &image.tag(tag)?.value {
        TagValue::Ascii(text) => Some(text.trim_matches(|c: char| c == '\0' || c.is_whitespace())),
        _ => None,
    }
}

fn transform(image: &Ifd, centred: bool) -> Option<[f64; 6]> {
    let numbers = |tag| image.tag(tag).and_then(|tag| tag.value.as_f64_vec());
    let [a, b, c, d, e, f] = match (numbers(SCALE).as_deref(), numbers(TIE_POINTS).as_deref()) {
        (Some([across, down, ..]), Some([column, row, _, x, y, ..])) => {
            // GDAL assumes that rows run downwards, whatever the sign.
            let down = down.abs();
            [*across, 0.0, x - column * across, 0.0, -down, y + row * down]
        }
        _ => match numbers(MATRIX).as_deref() {
            Some([a, b, _, c, d, e, _, f, ..]) => [*a, *b, *c, *d, *e, *f],
            _ => return None,
        },
    };
    // If the coordinates are those of a pixel's centre, its corner is half a pixel before.
    Some(match centred {
        true => [a, b, c - (a + b) / 2.0, d, e, f - (d + e) / 2.0],
        false => [a, b, c, d, e, f],
    })
}
