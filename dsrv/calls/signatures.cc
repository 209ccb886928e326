#include "dsrv/calls/signatures.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "dsrv/engine/trust.h"
#include "dsrv/wire/checks.h"
#include "fsm/base/hex.h"

namespace dfsmr {

Result<GivenSignatures> ParseSignatures(const std::vector<std::string>& texts) {
  if (texts.size() > Trust::kSignaturesMost) {
    return TooLarge("the list of signatures", texts.size(), Trust::kSignaturesMost);
  }
  GivenSignatures given;
  for (const std::string& text : texts) {
    if (text.size() > kSignatureMax) return TooLarge("a signature", text.size(), kSignatureMax);
    auto parsed = ParseSignature(text);
    if (!parsed) return parsed.error();
    std::string block = ArmoredBlocks(text).front();
    std::erase(block, '\r');
    if (std::ranges::find(given, block, &GivenSignature::text) != given.end()) continue;
    given.push_back({*std::move(parsed), std::move(block)});
  }
  return given;
}

Result<Ok> VerifyAll(const GivenSignatures& given, const ArchiveHashes& hashes) {
  for (const GivenSignature& one : given) {
    if (auto good = Verify(one.parsed, hashes); !good) return good;
  }
  return Ok{};
}

Result<ArchiveHashes> HashesOf(const Moment& moment, const rows::PackageVersionRow& row) {
  if (!row.sha512.empty()) {
    const std::string_view digits = std::string_view(row.digest).substr(row.digest.find(':') + 1);
    return ArchiveHashes{FromHex(digits).value_or(""), row.sha512};
  }
  ArchiveHasher hasher;
  uint64_t bytes = 0;
  for (uint32_t number = 0; bytes < row.size; ++number) {
    auto piece = rows::GetPiece(moment.rows, row.ns, row.upload, number);
    if (!piece) return piece.error();
    if (!*piece) {
      return Error{Code::kNotFound, Reason::kNoSuchPackage, "the version was removed just now"};
    }
    bytes += (*piece)->size();
    hasher.Add(**piece);
  }
  return hasher.Take();
}

std::vector<rows::SignatureRow> RowsOf(const GivenSignatures& given, const std::string& by) {
  std::vector<rows::SignatureRow> rows;
  for (const GivenSignature& one : given) {
    rows.push_back({Fingerprint(one.parsed.key), one.text, {}, by});
  }
  return rows;
}

}  // namespace dfsmr
