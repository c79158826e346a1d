# cmake -DOUT=builtin_texts.cpp -DFUNCTION=builtinTexts -DFILES="a.textproto;b.textproto" -P embed.cmake
# Writes text protos into one C++ file, so that the built-in descriptions need no files at run time.
set(text "#include \"compiler/target/builtin_texts.h\"\n\nnamespace tessera::compiler {\n
std::span<const std::string_view> ${FUNCTION}() {\n  static constexpr std::string_view kTexts[] = {\n")
foreach(file ${FILES})
  file(READ ${file} content)
  string(APPEND text "R\"textproto(${content})textproto\",\n")
endforeach()
string(APPEND text "  };\n  return kTexts;\n}\n\n}  // namespace tessera::compiler\n")
file(WRITE ${OUT} "${text}")
