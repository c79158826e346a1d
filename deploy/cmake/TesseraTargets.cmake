# Header parsing is nearly all of a file's compile time where MLIR or gRPC is included, so the files of a room share
# one precompiled header. It is compiled with -fPIC; an executable's default -fPIE would not match it.
function(tessera_share_header name header)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM ${header})
endfunction()

# tessera_library(name SOURCES... [DEPS lib...]): a library of ours without MLIR. In a folder that sets
# TESSERA_SERVICE_HEADER, it shares the header of the services, as tests and programs there do.
function(tessera_library name)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_DEPS})
  if(TESSERA_SERVICE_HEADER)
    tessera_share_header(${name} tessera_service_pch)
  endif()
endfunction()

# tessera_program(name SOURCES... [DEPS lib...]): an executable of ours without MLIR.
function(tessera_program name)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  if(TESSERA_SERVICE_HEADER)
    tessera_share_header(${name} tessera_service_pch)
  endif()
endfunction()

# tessera_mlir_library(name SOURCES... [DEPS lib...]): a library for code that includes MLIR.
function(tessera_mlir_library name)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_DEPS} tessera_mlir_sdk)
  tessera_share_header(${name} tessera_mlir_pch)
endfunction()

# tessera_test(name SOURCES... [DEPS lib...] [MLIR]): a GoogleTest binary, run by ctest as one test.
function(tessera_test name)
  cmake_parse_arguments(arg "MLIR" "" "DEPS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock GTest::gtest_main)
  if(arg_MLIR)
    target_link_libraries(${name} PRIVATE tessera_mlir_sdk)
    tessera_share_header(${name} tessera_mlir_pch)
  elseif(TESSERA_SERVICE_HEADER)
    tessera_share_header(${name} tessera_service_pch)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()
