// What the simulated devices say of themselves.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

int attribute_of(CUdevice_attribute attribute, int device);
void name_of(char *out, size_t size, int device);
void bus_of(char *out, size_t size, int device);
void uuid_of(char *bytes, int device);
void properties_of(cudaDeviceProp *properties, int device, size_t memory);
