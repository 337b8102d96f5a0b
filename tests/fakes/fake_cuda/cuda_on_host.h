/* What a CUDA kernel uses, for a C compiler: the threads of a grid are the steps of a loop. A kernel
   that is compiled so is proven in its arithmetic only. */
#pragma once
#include <math.h>

#define __global__ static

struct dim3 {
    unsigned x, y, z;
};

static struct dim3 gridDim, blockDim, blockIdx, threadIdx;

#define EACH(index, count)                                                                         \
    for (index.z = 0; index.z < count.z; index.z++)                                                \
        for (index.y = 0; index.y < count.y; index.y++)                                            \
            for (index.x = 0; index.x < count.x; index.x++)

#define LAUNCH(grid, block, call)                                                                  \
    do {                                                                                           \
        gridDim = grid;                                                                            \
        blockDim = block;                                                                          \
        EACH(blockIdx, gridDim) EACH(threadIdx, blockDim) call;                                    \
    } while (0)
