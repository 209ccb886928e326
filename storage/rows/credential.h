// The rows of access tokens, without their secrets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fsm/base/time.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct CredentialRow {
  std::string id;
  std::string hash;  // SHA-256 of the secret, 32 bytes
  std::string name;
  std::string ns;  // "*": all
  uint32_t role = 0;
  std::vector<std::string> machines;
  std::vector<std::string> queues;
  Timestamp create_time;
  Timestamp expire_time = kNever;
  std::string created_by;
  std::vector<std::string> secrets = {};  // names and patterns that it may resolve
  std::string parent = {};       // of a session: the id of the credential that it ends with
  std::string parent_hash = {};  // which has this hash
  bool code = false;             // it makes one session, and does nothing else
  friend bool operator==(const CredentialRow&, const CredentialRow&) = default;
};
void PutCredential(const Writer& writer, const CredentialRow& row);
void DropCredential(const Writer& writer, std::string_view id);
// All of them, by id.
Result<std::vector<CredentialRow>> ScanCredentials(const Reader& reader);

}  // namespace dfsmr::rows
