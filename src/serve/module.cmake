# The server's thread waits for sockets. Boost is headers only here; those of Beast and Asio are parsed once, in
# http_server.cpp, which is compiled alone.
find_path(FK_BOOST_INCLUDE boost/beast/core/tcp_stream.hpp REQUIRED)
mark_as_advanced(FK_BOOST_INCLUDE)
target_include_directories(fk_serve SYSTEM PRIVATE "${FK_BOOST_INCLUDE}")
fk_light_optimisation(fk_serve)
fk_precompile_json(fk_serve)
set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/http_server.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# GCC takes the two halves of a coroutine frame's allocation for different ones.
set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/http_server.cpp" APPEND PROPERTY COMPILE_OPTIONS -Wno-mismatched-new-delete)
fk_embed_text(fk_serve "${CMAKE_CURRENT_LIST_DIR}/assets/live.html" kLivePage)
fk_embed_text(fk_serve "${CMAKE_CURRENT_LIST_DIR}/assets/openapi.json" kOpenApi)
