# Puts files into the program: the console's, by gzip, and the protos with their comments.
#   embed(TARGET)
function(embed target)
  set(out ${CMAKE_BINARY_DIR}/embedded)
  file(MAKE_DIRECTORY ${out})
  set(protos ${out}/protos.pb)
  file(GLOB names CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/proto
       ${CMAKE_SOURCE_DIR}/proto/dfsmr/v1/*.proto ${CMAKE_SOURCE_DIR}/proto/dfsmr.proto)
  # protoc takes what goes on in the next line behind a field for a comment on the field below it.
  set(paths "")
  foreach(name ${names})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/proto/${name})
    file(READ ${CMAKE_SOURCE_DIR}/proto/${name} text)
    string(REGEX REPLACE "\n                    +// " " " text "${text}")
    set(path ${out}/proto/${name})
    set(before "")
    if(EXISTS ${path})
      file(READ ${path} before)
    endif()
    if(NOT "${before}" STREQUAL "${text}")
      file(WRITE ${path} "${text}")
    endif()
    list(APPEND paths ${path})
  endforeach()
  add_custom_command(OUTPUT ${protos}
    COMMAND protobuf::protoc --include_imports --include_source_info
            --descriptor_set_out=${protos} -I ${out}/proto ${paths}
    DEPENDS ${paths} VERBATIM)
  set(all ${protos})
  set(pieces "PIECE(protos, \"${protos}\")\n")
  set(rows "")
  file(GLOB dist CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/dsrv/console/dist/*)
  set(number 0)
  foreach(file ${dist})
    get_filename_component(name ${file} NAME)
    set(packed ${out}/${name}.gz)
    add_custom_command(OUTPUT ${packed} COMMAND sh -c "gzip -9nc '${file}' >'${packed}'"
                       DEPENDS ${file} VERBATIM)
    list(APPEND all ${packed})
    string(APPEND pieces "PIECE(console_${number}, \"${packed}\")\n")
    string(APPEND rows "{\"${name}\", Bytes(console_${number}, console_${number}_end)}, ")
    math(EXPR number "${number} + 1")
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/dsrv/http/embedded.cc.in ${out}/embedded.cc @ONLY)
  # By itself: in a unit it would not be compiled anew when what it embeds changes.
  set_source_files_properties(${out}/embedded.cc PROPERTIES
    OBJECT_DEPENDS "${all}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${out}/embedded.cc)
endfunction()
