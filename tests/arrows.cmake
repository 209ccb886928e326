# Which folder may include which: the arrows that keep the rules free of the network and the disk.
#   cmake -DROOT=... -P arrows.cmake
# Link lines cannot see headers, so this reads every #include of production code.
# Refuses includes that match none of ALLOW, in all files that match FILES.
function(arrows what)
  cmake_parse_arguments(ARG "" "" "FILES;EXCEPT;ALLOW" ${ARGN})
  list(TRANSFORM ARG_FILES PREPEND "${ROOT}/")
  file(GLOB files ${ARG_FILES})
  if(ARG_EXCEPT)
    list(TRANSFORM ARG_EXCEPT PREPEND "${ROOT}/")
    file(GLOB except ${ARG_EXCEPT})
    list(REMOVE_ITEM files ${except})
  endif()
  if(NOT files)
    message(SEND_ERROR "${what}: no files; has the folder moved?")
  endif()
  foreach(file ${files})
    file(STRINGS "${file}" includes REGEX "^[ \t]*#[ \t]*include")
    foreach(include ${includes})
      string(REGEX REPLACE ".*[<\"]([^>\"]+)[>\"].*" "\\1" name "${include}")
      set(good FALSE)
      foreach(pattern ${ARG_ALLOW})
        if(name MATCHES "^(${pattern})$")
          set(good TRUE)
        endif()
      endforeach()
      if(NOT good)
        file(RELATIVE_PATH short ${ROOT} ${file})
        message(SEND_ERROR "${short} includes ${name}: ${what} may not")
      endif()
    endforeach()
  endforeach()
endfunction()

set(standard "[a-z_0-9]+")  # <vector>: no folder, no .h
set(posix "(unistd|pwd|spawn|fcntl|stdlib|signal|pthread|poll|netdb|netinet/[a-z]+|sys/[a-z]+)\\.h")

arrows("fsm" FILES fsm/*.h fsm/*.cc EXCEPT fsm/yaml* fsm/schema* fsm/params_schema*
       ALLOW ${standard} "fsm/[^/]+")
arrows("fsm/yaml" FILES fsm/yaml* fsm/schema* fsm/params_schema*
       ALLOW ${standard} "fsm/[^/]+" "yaml-cpp/.+" "nlohmann/.+")
# Their headers say nothing of the libraries, so that those who include them need not know.
arrows("a header of fsm/yaml" FILES fsm/yaml.h fsm/params_schema.h
       ALLOW ${standard} "fsm/[^/]+")
arrows("storage/rows" FILES storage/rows*
       ALLOW ${standard} "fsm/[^/]+" "storage/(rows|rows_inside|store)\\.h" "record\\.pb\\.h" "google/protobuf/.+")
arrows("storage/rows.h" FILES storage/rows.h ALLOW ${standard} "fsm/[^/]+" "storage/store\\.h")
arrows("storage/store.h and memory_store" FILES storage/store.* storage/memory_store.*
       storage/fence.h
       ALLOW ${standard} "fsm/(result|time)\\.h" "storage/(store|memory_store|fence)\\.h")
arrows("storage/rocks_store" FILES storage/rocks_store.* storage/read_ahead.*
       storage/high_water.* storage/file.*
       ALLOW ${standard} ${posix} "fsm/(result|time)\\.h"
             "storage/(store|fence|file|high_water|read_ahead|rocks_store)\\.h" "rocksdb/.+")
arrows("a header of storage/rocks_store" FILES storage/*.h EXCEPT storage/rows_inside.h
       ALLOW ${standard} "fsm/[^/]+" "storage/[^/]+")
arrows("dsrv/engine" FILES dsrv/engine* dsrv/registry.*
       ALLOW ${standard} "fsm/[^/]+" "storage/(store|rows)\\.h" "absl/container/.+"
             "dsrv/(engine|engine_state|engine_definitions|registry)\\.h")
arrows("dsrv/loop and what it needs" FILES dsrv/loop.* dsrv/meter.h dsrv/pool.h
       ALLOW ${standard} "fsm/[^/]+" "storage/(store|rows)\\.h"
             "dsrv/(engine|loop|meter|pool)\\.h")
arrows("dsrv" FILES dsrv/*.h dsrv/*.cc EXCEPT dsrv/main.cc dsrv/flags.*
       ALLOW ${standard} ${posix} "fsm/[^/]+" "storage/(store|rows)\\.h" "dsrv/[^/]+"
             "dfsmr.*\\.pb\\.h" "google/protobuf/.+" "grpc.+" "spdlog/.+" "nlohmann/.+" "CLI/.+"
             "openssl/.+" "absl/container/.+")
arrows("dcli" FILES dcli/*.h dcli/*.cc
       ALLOW ${standard} ${posix} "fsm/[^/]+" "dcli/[^/]+" "dfsmr.*\\.pb\\.h" "google/protobuf/.+"
             "grpc.+" "nlohmann/.+" "CLI/.+")
