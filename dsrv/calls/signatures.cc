#include "dsrv/calls/signatures.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "dsrv/engine/trust.h"
#include "dsrv/wire/checks.h"

namespace dfsmr {
namespace {

std::string FromHex(std::string_view digits) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(value(digits[i]) << 4 | value(digits[i + 1]));
  }
  return bytes;
}

}  // namespace

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
    return ArchiveHashes{FromHex(std::string_view(row.digest).substr(row.digest.find(':') + 1)),
                         row.sha512};
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
