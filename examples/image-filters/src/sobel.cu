// The strength of the edges of an image, by Sobel's operator. Strides are in elements; beyond its
// edges the image goes on in mirrors.
#ifdef __cplusplus
extern "C"
#endif
__global__ void sobel(const float *image, float *result, long long height, long long width,
                      long long down, long long across)
{
    const long long x = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width)
        return;
    const long long left = (x > 0 ? x - 1 : 0) * across;
    const long long here = x * across;
    const long long right = (x + 1 < width ? x + 1 : x) * across;
    // A grid has at most 65535 rows of blocks, an image may have more.
    const long long step = (long long)gridDim.y * blockDim.y;
    for (long long y = (long long)blockIdx.y * blockDim.y + threadIdx.y; y < height; y += step) {
        const float *above = image + (y > 0 ? y - 1 : 0) * down;
        const float *row = image + y * down;
        const float *below = image + (y + 1 < height ? y + 1 : y) * down;
        const float dx = 0.25f * (above[right] - above[left]) + 0.5f * (row[right] - row[left])
                       + 0.25f * (below[right] - below[left]);
        const float dy = 0.25f * (below[left] - above[left]) + 0.5f * (below[here] - above[here])
                       + 0.25f * (below[right] - above[right]);
        result[y * width + x] = sqrtf((dx * dx + dy * dy) / 2.0f);
    }
}
