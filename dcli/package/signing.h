// Making and checking signatures of archives.
#pragma once

#include <string>
#include <vector>

#include "dcli/call/context.h"
#include "storage/signatures/signatures.h"

namespace dfsmr::cli {

// Has ssh-keygen sign a file; the armored signature. `key` empty: the one that ssh-keygen makes.
// The error has a hint in `hint`.
Result<std::string> SignedBy(const std::string& key, const std::string& file, std::string* hint);
// The signatures in a text such as FILE.sig; the text itself when there is none.
std::vector<std::string> SignaturesIn(const std::string& text);
// All of them, each of an archive with these hashes; or why one is never taken.
Result<std::vector<SshSignature>> GoodSignatures(const std::vector<std::string>& texts,
                                                 const ArchiveHashes& hashes);

}  // namespace dfsmr::cli
