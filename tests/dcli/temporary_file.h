// A file that is gone when the test is over.
#pragma once

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "dcli/system/process.h"

namespace dfsmr::cli {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, mode_t mode = 0600) {
    char name[] = "/tmp/dcli_test_XXXXXX.yaml";
    Descriptor(mkstemps(name, 5)).Close();
    path = name;
    std::ofstream(path) << text;
    chmod(name, mode);
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path;
};

}  // namespace dfsmr::cli
