# Header parsing takes most of the compile time of files that include MLIR or gRPC, so the files of a folder share one
# precompiled header. It is compiled with -fPIC; an executable's default -fPIE would not match it.
function(tessera_share_header name header)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM ${header})
  # On a direct-mode miss ccache runs the preprocessor, which reads the header's text and must find the files that it includes.
  get_target_property(libraries ${header} TESSERA_LIBRARIES)
  foreach(library IN LISTS libraries)
    target_include_directories(${name} SYSTEM PRIVATE $<TARGET_PROPERTY:${library},INTERFACE_SYSTEM_INCLUDE_DIRECTORIES>)
  endforeach()
endfunction()

# Files of a folder without MLIR share the header that TESSERA_HEADER names (default tessera_common_pch); empty means none.
set(TESSERA_HEADER tessera_common_pch)
function(tessera_share_header_of_folder name)
  if(TESSERA_HEADER)
    tessera_share_header(${name} ${TESSERA_HEADER})
  endif()
endfunction()

# tessera_library(name SOURCES... [DEPS lib...]): a library without MLIR.
function(tessera_library name)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_DEPS})
  tessera_share_header_of_folder(${name})
  tessera_compile_together(${name} ${arg_UNPARSED_ARGUMENTS})
endfunction()

# tessera_program(name SOURCES... [DEPS lib...]): an executable without MLIR.
function(tessera_program name)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  tessera_share_header_of_folder(${name})
endfunction()

# tessera_header(name header LIBS lib...): a precompiled header to share; a source file of the same name compiles it.
function(tessera_header name header)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  string(REGEX REPLACE "\\.h$" ".cpp" holder ${header})
  add_library(${name} STATIC ${holder})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_LIBS})
  set_target_properties(${name} PROPERTIES TESSERA_LIBRARIES "${arg_LIBS}")
  target_compile_definitions(${name} PRIVATE GTEST_HAS_PTHREAD=1)  # must match the tests' definitions
  target_compile_options(${name} PRIVATE -fpch-instantiate-templates -Xclang -fno-pch-timestamp)
  # With a path relative to the root, CMake's file that includes the header is equal in every checkout, so checkouts share
  # ccache entries.
  file(RELATIVE_PATH from_root ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${header})
  target_precompile_headers(${name} PRIVATE <${from_root}>)
endfunction()

# tessera_mlir_library(name SOURCES... [DEPS lib...]): a library for code that includes MLIR.
function(tessera_mlir_library name)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_DEPS} tessera_mlir_sdk)
  tessera_share_header(${name} tessera_mlir_pch)
  tessera_compile_together(${name} ${arg_UNPARSED_ARGUMENTS})
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
  else()
    tessera_share_header_of_folder(${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()
