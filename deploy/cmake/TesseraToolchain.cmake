# All compiler flags. Our own code compiles without warnings; system headers are exempt.
add_compile_options(-Wall -Wextra -Wpedantic -Wno-unused-parameter)
# For all files or for none: files that share a precompiled header must agree on it.
add_compile_options(-pthread)
if(TESSERA_WERROR)
  add_compile_options(-Werror)
endif()
# Debug information for stack traces, at a fraction of -g's link time.
add_compile_options($<$<NOT:$<CONFIG:Debug>>:-g1>)
add_link_options(-fuse-ld=lld -Wl,--as-needed)
if(TESSERA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address)
  add_link_options(-fsanitize=address)
endif()
if(TESSERA_SANITIZE)
  add_compile_options(-fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TESSERA_SANITIZE})
endif()

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness settings let ccache cache files that use a precompiled header. The other settings let checkouts share
  # entries.
  set(launcher env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${CMAKE_SOURCE_DIR}/deploy/cmake/compile ${TESSERA_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
