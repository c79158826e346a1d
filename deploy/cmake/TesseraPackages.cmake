find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED)
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
# The CLI and the web gateway read npz files and artifacts with libzip; its CMake file wants tools we do not need.
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
# The searches' network and cost model.
pkg_check_modules(EIGEN3 REQUIRED eigen3)
find_path(XGBOOST_INCLUDE_DIR xgboost/c_api.h REQUIRED)
find_library(XGBOOST_LIBRARY xgboost REQUIRED)
# HTTP/1.1 for the web page; compiled with what Debian built it with, or its types would differ.
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
# What tesserad counts, in Prometheus' terms.
pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
find_path(ONNX_PROTO_DIR onnx/onnx.proto PATHS /usr/include REQUIRED)

# Everything of MLIR and LLVM is in two shared libraries; never mix in the static ones.
add_library(tessera_mlir_sdk INTERFACE)
target_include_directories(tessera_mlir_sdk SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_link_libraries(tessera_mlir_sdk INTERFACE MLIR LLVM)
