// The two small files of an export that people may read and edit: namespace.yaml, with the
// settings, trusted keys and names of secrets of a namespace, and packages/active.yaml, which says
// what is in force. The same state gives the same bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dfsmr/v1/package.pb.h"
#include "fsm/base/result.h"

namespace dfsmr {

struct SpaceFile {
  struct Key {
    std::string name;
    std::string line;  // as in id_ed25519.pub
    bool revoked = false;
  };
  std::string name;
  v1::NamespaceSettings settings;
  std::vector<Key> keys;
  std::vector<std::string> secrets;  // names, in order
};
std::string ToYaml(const SpaceFile& file);
// BAD_ARCHIVE names the file, and the line. What settings may be, ToSettings knows.
Result<SpaceFile> ReadSpaceFile(std::string_view text, const std::string& path);

struct InForce {
  std::string active;     // a version; empty: none
  std::string candidate;  // likewise
  uint32_t share = 0;     // of the candidate, in hundredths of a percent
};
using ActiveFile = std::map<std::string, InForce>;  // by package
std::string ToYaml(const ActiveFile& file);
Result<ActiveFile> ReadActiveFile(std::string_view text, const std::string& path);

}  // namespace dfsmr
