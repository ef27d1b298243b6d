# What track/ needs beyond its sources. A library that is missing switches its part off by compiling a stand-in.
function(fk_track_part folder stand_in target sentence)
  get_target_property(sources fk_track SOURCES)
  if(TARGET ${target})
    list(FILTER sources EXCLUDE REGEX "/track/${stand_in}\\.cpp$")
    target_include_directories(fk_track SYSTEM PUBLIC $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
  else()
    list(FILTER sources EXCLUDE REGEX "/track/${folder}/")
    message(STATUS "${sentence}")
  endif()
  set_property(TARGET fk_track PROPERTY SOURCES ${sources})
endfunction()

# Every run says how the program that made it was built.
string(TOUPPER "${CMAKE_BUILD_TYPE}" configuration)
string(JOIN " " flags ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${configuration}} ${FK_CODE_FLAGS})
set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/environment.cpp" PROPERTIES COMPILE_DEFINITIONS
                            "FK_BUILD_FLAGS=\"${flags}\"")

find_package(SQLite3 QUIET)
fk_track_part(sqlite without_sqlite SQLite::SQLite3
  "SQLite's headers are missing (libsqlite3-dev): no history; runs go to journals that `fastkernels history import` takes.")
if(TARGET SQLite::SQLite3)
  set_property(TARGET fk_track APPEND PROPERTY FK_LIBRARIES SQLite::SQLite3)
  fk_embed_texts(fk_track "${CMAKE_CURRENT_LIST_DIR}/sqlite/schema/*.sql" kStoreSchema)
endif()

# Not linked: curl/http_curl.cpp loads it when it is needed.
find_package(CURL QUIET)
fk_track_part(curl without_curl CURL::libcurl
  "libcurl's headers are missing (libcurl4-openssl-dev): runs are not mirrored to MLflow.")

# It waits for files, databases and sockets.
fk_light_optimisation(fk_track)
fk_precompile_json(fk_track)
