// The rows of secrets: which versions there are, and their sealed values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/time.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct SecretVersion {
  uint32_t version = 0;
  Timestamp create_time;
  std::string created_by;
  std::string key;  // that seals it, as users call it
  friend bool operator==(const SecretVersion&, const SecretVersion&) = default;
};
struct SecretRow {
  std::string ns;
  std::string name;
  uint32_t last = 0;                    // the number given last
  std::vector<SecretVersion> versions;  // by number; empty: there is no such secret any more
  friend bool operator==(const SecretRow&, const SecretRow&) = default;
};
void PutSecret(const Writer& writer, const SecretRow& row);
// nullopt: there never was one.
Result<std::optional<SecretRow>> GetSecret(const Reader& reader, std::string_view ns,
                                           std::string_view name);
// Those of a namespace, by name.
Result<std::vector<SecretRow>> SecretsOf(const Reader& reader, std::string_view ns);
// Those of all namespaces after the one that is called `after` (nullopt: from the first one on),
// until `visit` returns false.
struct SecretName {
  std::string ns;
  std::string name;
};
Result<Ok> ScanSecrets(const Reader& reader, const std::optional<SecretName>& after,
                       const std::function<bool(SecretRow)>& visit);

struct SealedSecret {
  std::string key;
  std::string sealed;
};
void PutSealed(const Writer& writer, std::string_view ns, std::string_view name, uint32_t version,
               const SealedSecret& secret);
void DropSealed(const Writer& writer, std::string_view ns, std::string_view name, uint32_t version);
Result<std::optional<SealedSecret>> GetSealed(const Reader& reader, std::string_view ns,
                                              std::string_view name, uint32_t version);

}  // namespace dfsmr::rows
