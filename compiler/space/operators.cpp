#include "compiler/space/operators.h"

namespace tessera::compiler::space {
namespace {

// Zero padding is a node of its own, as is the dilation of a transposed convolution's input.
constexpr Operator kOperators[] = {
    {"GMV", "matrix times vector", "input A[1024, 512], x[512]: f32; y[i] += A[i, k] * x[k];", 1, 1, 1},
    {"GMM", "matrix product", "input A[512, 512], B[512, 512]: f32; C[i, j] += A[i, k] * B[k, j];", 2, 1, 1},
    {"BIL", "bilinear",
     "input A[256, 128], B[64, 128, 128], C[256, 128]: f32; O[i, j] += A[i, k] * B[j, k, l] * C[i, l];", 2, 2, 1},
    {"C1D", "convolution of sequences",
     "input X[1, 64, 896], W[128, 64, 3]: f32;"
     "P[n, c, l] = (l >= 1) & (l < 897) ? X[n, c, l - 1] : 0 where l < 898;"
     "Y[n, k, l] += P[n, c, l + r] * W[k, c, r];",
     6, 2, 2},
    {"T1D", "transposed convolution of sequences",
     "input X[1, 64, 448], W[128, 64, 3]: f32;"
     "E[n, c, l] = l % 2 == 0 ? X[n, c, l / 2] : 0 where l < 895;"
     "P[n, c, l] = (l >= 1) & (l < 896) ? E[n, c, l - 1] : 0 where l < 897;"
     "Y[n, k, l] += P[n, c, l + r] * W[k, c, r];",
     9, 2, 3},
    {"C2D", "convolution",
     "input X[1, 256, 28, 28], W[512, 256, 3, 3]: f32;"
     "P[n, c, y, x] = (y >= 1) & (y < 29) & (x >= 1) & (x < 29) ? X[n, c, y - 1, x - 1] : 0 where y < 30, x < 30;"
     "Y[n, k, y, x] += P[n, c, y + r, x + s] * W[k, c, r, s];",
     8, 3, 2},
    {"T2D", "transposed convolution",
     "input X[1, 128, 14, 14], W[64, 128, 3, 3]: f32;"
     "E[n, c, y, x] = (y % 2 == 0) & (x % 2 == 0) ? X[n, c, y / 2, x / 2] : 0 where y < 27, x < 27;"
     "P[n, c, y, x] = (y >= 1) & (y < 28) & (x >= 1) & (x < 28) ? E[n, c, y - 1, x - 1] : 0 where y < 29, x < 29;"
     "Y[n, k, y, x] += P[n, c, y + r, x + s] * W[k, c, r, s];",
     12, 3, 3},
    {"C3D", "convolution of volumes",
     "input X[1, 32, 8, 28, 28], W[64, 32, 3, 3, 3]: f32;"
     "P[n, c, z, y, x] = (z >= 1) & (z < 9) & (y >= 1) & (y < 29) & (x >= 1) & (x < 29)"
     "  ? X[n, c, z - 1, y - 1, x - 1] : 0 where z < 10, y < 30, x < 30;"
     "Y[n, k, z, y, x] += P[n, c, z + q, y + r, x + s] * W[k, c, q, r, s];",
     10, 4, 2},
    {"T3D", "transposed convolution of volumes",
     "input X[1, 32, 4, 14, 14], W[32, 32, 3, 3, 3]: f32;"
     "E[n, c, z, y, x] = (z % 2 == 0) & (y % 2 == 0) & (x % 2 == 0) ? X[n, c, z / 2, y / 2, x / 2] : 0"
     "  where z < 7, y < 27, x < 27;"
     "P[n, c, z, y, x] = (z >= 1) & (z < 8) & (y >= 1) & (y < 28) & (x >= 1) & (x < 28)"
     "  ? E[n, c, z - 1, y - 1, x - 1] : 0 where z < 9, y < 29, x < 29;"
     "Y[n, k, z, y, x] += P[n, c, z + q, y + r, x + s] * W[k, c, q, r, s];",
     15, 4, 3},
    {"GRP", "grouped convolution",
     "input X[1, 4, 32, 28, 28], W[4, 64, 32, 3, 3]: f32;"
     "P[n, g, c, y, x] = (y >= 1) & (y < 29) & (x >= 1) & (x < 29) ? X[n, g, c, y - 1, x - 1] : 0"
     "  where y < 30, x < 30;"
     "Y[n, g, k, y, x] += P[n, g, c, y + r, x + s] * W[g, k, c, r, s];",
     4, 3, 2},
    {"DEP", "depthwise convolution",
     "input X[1, 128, 28, 28], W[128, 3, 3]: f32;"
     "P[n, c, y, x] = (y >= 1) & (y < 29) & (x >= 1) & (x < 29) ? X[n, c, y - 1, x - 1] : 0 where y < 30, x < 30;"
     "Y[n, c, y, x] += P[n, c, y + r, x + s] * W[c, r, s];",
     4, 3, 2},
    {"DIL", "dilated convolution",
     "input X[1, 128, 28, 28], W[128, 128, 3, 3]: f32;"
     "P[n, c, y, x] = (y >= 2) & (y < 30) & (x >= 2) & (x < 30) ? X[n, c, y - 2, x - 2] : 0 where y < 32, x < 32;"
     "Y[n, k, y, x] += P[n, c, y + 2 * r, x + 2 * s] * W[k, c, r, s];",
     4, 3, 2},
    {"BCM", "block-circulant product",
     "input X[64, 8, 32], W[8, 8, 32]: f32;"
     "Y[n, p, i] += X[n, q, j] * W[p, q, (i - j + 32) % 32] where i < 32;",
     0, 0, 0},
    {"SHO", "shift of channels",
     "input X[1, 63, 28, 28]: f32;"
     "P[n, c, y, x] = (y >= 1) & (y < 29) & (x >= 1) & (x < 29) ? X[n, c, y - 1, x - 1] : 0 where y < 30, x < 30;"
     "Y[n, c, y, x] = P[n, c, y + c % 3, x + c / 3 % 3] where y < 28, x < 28;",
     0, 0, 0},
};

}  // namespace

std::span<const Operator> operators() { return kOperators; }

}  // namespace tessera::compiler::space
