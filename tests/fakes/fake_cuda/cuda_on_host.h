/* Compiles a CUDA kernel with a C compiler. The threads of a grid become the iterations of a loop, so this
   only tests the kernel's arithmetic. */
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
