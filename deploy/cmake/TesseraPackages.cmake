find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)              # blobs in S3
find_package(Protobuf REQUIRED)          # module mode: Debian ships no config file
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(GTest REQUIRED)
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
find_package(LLD REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/lld)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(LIBPQ REQUIRED libpq)
# The CLI and the web gateway read npz files and artifacts with libzip. Its CMake configuration requires tools that are not
# needed here.
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
# For the network and the cost model of the searches.
pkg_check_modules(EIGEN3 REQUIRED eigen3)
find_path(XGBOOST_INCLUDE_DIR xgboost/c_api.h REQUIRED)
find_library(XGBOOST_LIBRARY xgboost REQUIRED)
# HTTP/1.1 for the web page. It is compiled with Debian's own definitions; otherwise the types would differ from the library's.
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
# Metrics of tesserad in Prometheus's format.
pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
find_path(ONNX_PROTO_DIR onnx/onnx.proto PATHS /usr/include REQUIRED)

# All of MLIR and LLVM is in two shared libraries; never link the static ones as well.
add_library(tessera_mlir_sdk INTERFACE)
target_include_directories(tessera_mlir_sdk SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_link_libraries(tessera_mlir_sdk INTERFACE MLIR LLVM)
