// What the build has put into the program: the console's files, and the protos.
#pragma once

#include <string_view>
#include <vector>

namespace dfsmr::http::embedded {

struct File {
  std::string_view name;   // "app.js"
  std::string_view bytes;  // by gzip
};
// Empty: this build has no console.
std::vector<File> Console();
// A FileDescriptorSet with comments.
std::string_view Protos();

}  // namespace dfsmr::http::embedded
