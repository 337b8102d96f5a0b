// The functions of `run.py` with TVM FFI.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

namespace {

struct View {
    float *data;
    int64_t height, width, down, right;
    float &operator()(int64_t y, int64_t x) const { return data[y * down + x * right]; }
};

// A tensor view has no dtype, rank or device in its type, so that its author checks them.
View opened(const ffi::TensorView &tensor) {
    DLDataType dtype = tensor.dtype();
    if (dtype.code != kDLFloat || dtype.bits != 32 || dtype.lanes != 1)
        TVM_FFI_THROW(TypeError) << "expected float32";
    if (tensor.ndim() != 2) TVM_FFI_THROW(TypeError) << "expected 2 dimensions";
    if (tensor.device().device_type != kDLCPU) TVM_FFI_THROW(TypeError) << "expected host memory";
    return {static_cast<float *>(tensor.data_ptr()), tensor.size(0), tensor.size(1),
            tensor.stride(0), tensor.stride(1)};
}

double total(ffi::TensorView image) {
    View view = opened(image);
    float sum = 0;
    for (int64_t y = 0; y < view.height; ++y)
        for (int64_t x = 0; x < view.width; ++x) sum += view(y, x);
    return sum;
}

ffi::Tensor doubled(ffi::TensorView image) {
    View from = opened(image);
    // The allocator is that of the caller's framework.
    ffi::Tensor result =
        ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, image.shape(), image.dtype(), image.device());
    float *data = static_cast<float *>(result.data_ptr());
    for (int64_t y = 0; y < from.height; ++y)
        for (int64_t x = 0; x < from.width; ++x) data[y * from.width + x] = 2 * from(y, x);
    return result;
}

void add_to(ffi::TensorView image, ffi::TensorView out) {
    View from = opened(image), to = opened(out);
    for (int64_t y = 0; y < to.height; ++y)
        for (int64_t x = 0; x < to.width; ++x) to(y, x) += from(y, x);
}

void double_into(ffi::TensorView image, ffi::TensorView out) {
    View from = opened(image), to = opened(out);
    for (int64_t y = 0; y < to.height; ++y)
        for (int64_t x = 0; x < to.width; ++x) to(y, x) = 2 * from(y, x);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(total, total);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(doubled, doubled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_to, add_to);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(double_into, double_into);
