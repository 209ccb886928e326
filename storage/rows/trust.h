// The rows of trust: keys whose signatures count in a namespace, the signatures of the versions of
// packages, and as what an activation has defined their schedules, triggers and limits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct TrustedKeyRow {
  std::string name;
  std::string fingerprint;  // "SHA256:…"
  std::string public_key;   // one line
  Timestamp create_time{};
  std::string created_by;
  Timestamp revoke_time{};  // zero: it is trusted

  bool Revoked() const { return revoke_time != Timestamp(); }
};
void PutTrustedKey(const Writer& writer, std::string_view ns, const TrustedKeyRow& row);
Result<Ok> ScanTrustedKeys(const Reader& reader,
                           const std::function<void(std::string_view ns, TrustedKeyRow)>& visit);

// A signature that was found good when it came.
struct SignatureRow {
  std::string fingerprint;  // of its key
  std::string text;         // armored
  Timestamp time{};
  std::string by;
};
// `number` counts those of a version.
void PutSignature(const Writer& writer, std::string_view ns, std::string_view package,
                  std::string_view version, uint32_t number, const SignatureRow& row);
// In the order in which they came.
Result<std::vector<SignatureRow>> GetSignatures(const Reader& reader, std::string_view ns,
                                                std::string_view package, std::string_view version);
using VisitSignature = std::function<void(std::string_view ns, std::string_view package,
                                          std::string_view version, std::string fingerprint)>;
Result<Ok> ScanSignatures(const Reader& reader, const VisitSignature& visit);

// By kind and id, such as "schedule:etl.nightly".
using DefinedAs = std::map<std::string, uint32_t>;
void PutDefined(const Writer& writer, std::string_view ns, std::string_view package,
                std::string_view version, const DefinedAs& defined);
using VisitDefined = std::function<void(std::string_view ns, std::string_view package,
                                        std::string_view version, DefinedAs defined)>;
Result<Ok> ScanDefined(const Reader& reader, const VisitDefined& visit);

}  // namespace dfsmr::rows
