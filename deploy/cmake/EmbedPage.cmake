# cmake -DOUTPUT=page_files.cpp -DWEB=files -DDOCS=files -P EmbedPage.cmake: embeds files in a program, for
# server/gateway/page_files.h. Files of the web page are served under "/web/", except index.html ("/index.html"); those of the
# documentation under "/docs/".
set(TYPE_html "text/html; charset=utf-8")
set(TYPE_css "text/css; charset=utf-8")
set(TYPE_js "text/javascript; charset=utf-8")
set(TYPE_svg "image/svg+xml")
set(TYPE_webp "image/webp")

set(arrays "")
set(entries "")
set(index 0)
foreach(folder WEB DOCS)
  string(TOLOWER ${folder} name)
  foreach(file ${${folder}})
    file(READ ${file} hex HEX)
    file(SHA256 ${file} digest)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "^.*\\." "" extension ${file})
    if(NOT DEFINED TYPE_${extension})
      message(FATAL_ERROR "${file}: no content type is known for .${extension}; add one to EmbedPage.cmake")
    endif()
    get_filename_component(path ${file} NAME)
    if("${folder}/${path}" STREQUAL "WEB/index.html")
      set(path "/index.html")
    else()
      set(path "/${name}/${path}")
    endif()
    string(APPEND arrays "constexpr unsigned char kFile${index}[] = {${bytes}};\n")
    string(APPEND entries "    {\"${path}\", \"${TYPE_${extension}}\",\n     {reinterpret_cast<const char*>(kFile${index}),"
                          " sizeof(kFile${index})},\n     \"${digest}\"},\n")
    math(EXPR index "${index} + 1")
  endforeach()
endforeach()
file(WRITE ${OUTPUT} "#include \"server/gateway/page_files.h\"\n\nnamespace tessera::server::gateway {\nnamespace {\n${arrays}\
\nconst PageFile kFiles[] = {\n${entries}};\n}  // namespace\n\
std::span<const PageFile> pageFiles() { return kFiles; }\n\n}  // namespace tessera::server::gateway\n")
