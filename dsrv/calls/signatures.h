// Signatures of archives as they come with a call: checked here, off the deciding thread, which
// takes only whose they are.
#pragma once

#include <string>
#include <vector>

#include "dsrv/wire/moment.h"
#include "storage/rows/package.h"
#include "storage/rows/trust.h"
#include "storage/signatures/signatures.h"

namespace dfsmr {

struct GivenSignature {
  SshSignature parsed;
  std::string text;  // the armored block
};
using GivenSignatures = std::vector<GivenSignature>;

// Without repetitions. BAD_SIGNATURE, or TOO_LARGE.
Result<GivenSignatures> ParseSignatures(const std::vector<std::string>& texts);
// SIGNATURE_MISMATCH.
Result<Ok> VerifyAll(const GivenSignatures& given, const ArchiveHashes& hashes);
// The hashes of an archive that is there. Reads all of it if it was put before they were kept.
Result<ArchiveHashes> HashesOf(const Moment& moment, const rows::PackageVersionRow& row);
std::vector<rows::SignatureRow> RowsOf(const GivenSignatures& given, const std::string& by);

}  // namespace dfsmr
