// The functions of `run.py` with nanobind.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

using Image = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;
using Written = nb::ndarray<float, nb::ndim<2>, nb::device::cpu>;
using Doubled = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

float total(Image image) {
    auto view = image.view();
    float sum = 0;
    for (size_t y = 0; y < view.shape(0); ++y)
        for (size_t x = 0; x < view.shape(1); ++x) sum += view(y, x);
    return sum;
}

Doubled doubled(Image image) {
    auto view = image.view();
    size_t height = view.shape(0), width = view.shape(1);
    float *data = new float[height * width];
    nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<float *>(p); });
    for (size_t y = 0; y < height; ++y)
        for (size_t x = 0; x < width; ++x) data[y * width + x] = 2 * view(y, x);
    return Doubled(data, {height, width}, owner);
}

void add_to(Image image, Written out) {
    auto from = image.view();
    auto to = out.view();
    for (size_t y = 0; y < to.shape(0); ++y)
        for (size_t x = 0; x < to.shape(1); ++x) to(y, x) += from(y, x);
}

NB_MODULE(with_nanobind, module) {
    module.def("total", &total, nb::arg("image"));
    module.def("doubled", &doubled, nb::arg("image"));
    module.def("add_to", &add_to, nb::arg("image"), nb::arg("out").noconvert());
}
