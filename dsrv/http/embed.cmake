# Puts files into the program: the console's, by gzip, and the protos with their comments.
#   embed(TARGET)
function(embed target)
  set(out ${CMAKE_BINARY_DIR}/embedded)
  file(MAKE_DIRECTORY ${out})
  set(protos ${out}/protos.pb)
  file(GLOB names CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/proto
       ${CMAKE_SOURCE_DIR}/proto/dfsmr/v1/*.proto ${CMAKE_SOURCE_DIR}/proto/dfsmr.proto)
  list(TRANSFORM names PREPEND ${CMAKE_SOURCE_DIR}/proto/ OUTPUT_VARIABLE paths)
  add_custom_command(OUTPUT ${protos}
    COMMAND protobuf::protoc --include_imports --include_source_info
            --descriptor_set_out=${protos} -I ${CMAKE_SOURCE_DIR}/proto ${paths}
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
  set_source_files_properties(${out}/embedded.cc PROPERTIES OBJECT_DEPENDS "${all}")
  target_sources(${target} PRIVATE ${out}/embedded.cc)
endfunction()
