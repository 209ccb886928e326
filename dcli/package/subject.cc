#include "dcli/package/subject.h"

#include <filesystem>

#include "dcli/text/text.h"
#include "storage/archive/files.h"
#include "storage/zones/zones.h"

namespace dfsmr::cli {
namespace {

Result<Subject> OpenFolder(const std::string& place) {
  Subject subject{.name = place, .folder = true, .manifest = "", .files = {}};
  while (subject.name.size() > 1 && subject.name.ends_with('/')) subject.name.pop_back();
  auto manifest = ReadWholeFile(subject.name + "/" + std::string(kManifestName));
  if (!manifest) return manifest.error();
  subject.manifest = *std::move(manifest);
  // What is wrong with it is said by the check.
  std::vector<Diagnostic> ignored;
  const auto read = ParseManifest(subject.manifest, kManifestName, AnyProgram, &ignored);
  auto files =
      ReadFolder(subject.name, Exclusions(read ? read->exclude : std::vector<std::string>()),
                 read ? read->Top() : "NAME-VERSION");
  if (!files) return files.error();
  subject.files = *std::move(files);
  return subject;
}

}  // namespace

bool IsHere(const std::string& place) {
  std::error_code ignored;
  const bool named = place.find('@') != std::string::npos || place.starts_with("sha256:");
  return !named || std::filesystem::exists(place, ignored);
}

Result<Subject> OpenSubject(const std::string& place) {
  std::error_code ignored;
  if (std::filesystem::is_directory(place, ignored)) return OpenFolder(place);
  auto archive = ReadArchive(place);
  if (!archive) return archive.error();
  return Subject{.name = place,
                 .folder = false,
                 .manifest = std::move(archive->manifest),
                 .files = std::move(archive->files)};
}

int FailToOpen(Context& context, const std::string& place, const Error& error) {
  const bool unreadable = error.code == Code::kUnavailable || error.code == Code::kNotFound;
  if (unreadable) return context.Fail(kBadUsage, error.message);
  return context.Fail(kRefused,
                      place + ": " + std::string(Name(error.reason)) + ": " + error.message,
                      "dcli package build makes archives that are taken");
}

Result<std::string> Subject::Read(const std::string& path) const {
  if (path == kManifestName) return manifest;
  if (folder) return ReadWholeFile(name + "/" + path);
  const auto file = files.find(path);
  Check(file != files.end(), "the file is one of the package's");
  return ReadPart(name, file->second.offset, file->second.size);
}

PackageContents Subject::Contents() const {
  return {.files = files,
          .read =
              [this](const std::string& path) {
                const auto text = Read(path);
                return text ? *text : std::string();
              },
          .prefix = name + "/"};
}

Result<CheckedPackage> CheckSubject(const Subject& subject) {
  Zones zones;
  const FindZone find = [&zones](std::string_view name) { return zones.Find(name); };
  const Timestamp now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  return CheckPackage(subject.Contents(), {}, find, now);
}

std::string LinesOf(const std::vector<Diagnostic>& diagnostics) {
  std::string lines;
  for (const Diagnostic& one : diagnostics) lines += Escaped(Format(one)) + "\n";
  return lines;
}

}  // namespace dfsmr::cli
