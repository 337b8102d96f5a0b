// Names of errors, which build.py writes from CUDA's headers.
#pragma once
extern "C" {
const char *simulated_error_name(int error);
const char *simulated_error_text(int error);
int simulated_refused(const char *name, void *caller);
}
