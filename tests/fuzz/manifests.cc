// Manifests of packages, versions and patterns, with the documents behind a zero byte.
#include "fsm/package/check.h"
#include "fsm/package/exclude.h"
#include "fsm/package/version.h"
#include "tests/fuzz/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const std::string manifest(bytes.Line());
  const std::string documents(bytes.Rest());
  PackageFiles files;
  files["package.yaml"] = {.size = manifest.size()};
  files["bin/x"] = {.executable = true};
  if (!documents.empty()) files["documents/d.yaml"] = {.size = documents.size()};
  const PackageContents contents{
      .files = files,
      .read =
          [&](const std::string& path) { return path == "package.yaml" ? manifest : documents; },
      .prefix = ""};
  const auto checked = CheckPackage(contents, {}, OnlyUtc, Timestamp{});
  if (!checked) return 0;
  for (const Diagnostic& one : checked->diagnostics) {
    Check(Format(one).find('\n') == std::string::npos, "a diagnostic takes one line");
  }
  if (!checked->manifest) return 0;
  Check(!VersionProblem(checked->manifest->version), "a manifest has a version");
  const Exclusions exclusions(checked->manifest->exclude);
  Check(!exclusions.LeavesOut("package.yaml"), "the manifest is never left out");
  (void)exclusions.LeavesOut(manifest.substr(0, 300));
  const auto changed = WithVersion(manifest, "9.9.9");
  if (!changed) return 0;
  std::vector<Diagnostic> found;
  const auto again = ParseManifest(*changed, "again", AnyProgram, &found);
  Check(again && again->version == "9.9.9", "a version that was written is read");
  return 0;
}
