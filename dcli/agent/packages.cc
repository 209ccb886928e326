#include "dcli/agent/packages.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "dcli/text/text.h"
#include "storage/archive/files.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// How long fetching goes on without a byte, while the server is away.
constexpr seconds kFetchPatience{60};
// A package that could not be made ready is not tried again at once for each of its nodes.
constexpr seconds kFailedFor{20};
constexpr size_t kIdleSlots = 200;
constexpr size_t kMostCached = 1'000;
constexpr size_t kPackageReason = 900;  // of the 1,000 characters of a reason

std::string RefText(const v1::PackageRef& ref) { return ref.name() + "@" + ref.version(); }

std::string SizeText(uint64_t bytes) {
  return bytes < 10'240 ? std::to_string(bytes) + " bytes" : std::to_string(bytes >> 10) + " KiB";
}

}  // namespace

bool PackagePlan::Serves(const std::string& package) const {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return name == "*" || name == package; });
}

// Of one digest.
struct Packages::Slot {
  std::map<std::string, Wants> waiting;  // by claim
  std::thread thread;                    // that prepares it
  std::shared_ptr<const ReadyPackage> ready;
  std::weak_ptr<const PackageInUse> in_use;
  CachedPackagePtr files;  // while it is set up
  std::string set_up;      // the birth of the files that it was set up with
  std::unique_ptr<SetUp> setting_up;
  std::string failure;
  SteadyTime failed_until;

  bool at_work() const { return thread.joinable() || setting_up != nullptr; }
};

struct Packages::Prepared {
  ReadyPackage package;
  CachedPackagePtr files;
};

Packages::Packages(Client& client, Loop& loop, std::function<Keeper&()> keeper,
                   const Surroundings& surroundings, const std::string& name_space,
                   PackagePlan plan)
    : client_(client),
      loop_(loop),
      keeper_(std::move(keeper)),
      surroundings_(surroundings),
      name_space_(name_space),
      plan_(std::move(plan)),
      cache_(plan_.cache, plan_.cache_bytes),
      trusted_(plan_.trusted_keys) {}

Packages::~Packages() {
  canceller_.Cancel();
  for (const auto& [digest, slot] : slots_) {
    if (slot->thread.joinable()) slot->thread.join();
  }
}

std::vector<std::string> Packages::Cached() const { return cache_.Digests(kMostCached); }

// On the loop's thread -----------------------------------------------------------------------

PackageInUsePtr Packages::Ready(const v1::PackageRef& ref) {
  const auto found = slots_.find(ref.digest());
  if (found == slots_.end() || found->second->ready == nullptr) return nullptr;
  Slot& slot = *found->second;
  if (slot.at_work()) return nullptr;  // its setup is running
  if (trusted_.any() && !trusted_.Check(slot.ready->signed_by)) {
    slot.ready = nullptr;  // somebody may have signed it meanwhile
    return nullptr;
  }
  if (auto in_use = slot.in_use.lock()) return in_use;
  CachedPackagePtr files = cache_.Find(ref.digest());
  if (files == nullptr || files->birth() != slot.ready->birth) {
    slot.ready = nullptr;
    return nullptr;
  }
  auto used = std::make_shared<const PackageInUse>(PackageInUse{slot.ready, std::move(files)});
  slot.in_use = used;
  return used;
}

void Packages::Prepare(const v1::PackageRef& ref, const std::string& claim, Wants wants) {
  DropIdle();
  auto& slot = slots_[ref.digest()];
  if (slot == nullptr) slot = std::make_unique<Slot>();
  slot->waiting[claim] = std::move(wants);
  if (slot->at_work()) return;
  if (!slot->failure.empty() && steady_clock::now() < slot->failed_until) {
    loop_.Post([this, digest = ref.digest()] {
      const auto found = slots_.find(digest);
      if (found == slots_.end() || found->second->at_work()) return;
      Answer(found->second.get(),
             Error{Code::kFailedPrecondition, Reason::kNone, found->second->failure});
    });
    return;
  }
  Begin(slot.get(), ref);
}

void Packages::Forget(const v1::PackageRef& ref, const std::string& claim) {
  const auto found = slots_.find(ref.digest());
  if (found != slots_.end()) found->second->waiting.erase(claim);
}

void Packages::DropIdle() {
  if (slots_.size() < kIdleSlots) return;
  std::erase_if(slots_, [](const auto& one) {
    const Slot& slot = *one.second;
    return !slot.at_work() && slot.waiting.empty() && slot.in_use.expired();
  });
}

void Packages::Begin(Slot* slot, const v1::PackageRef& ref) {
  slot->failure.clear();
  slot->ready = nullptr;
  slot->thread = std::thread([this, ref] {
    auto prepared = Work(ref);
    loop_.Post([this, digest = ref.digest(), prepared = std::move(prepared)] {
      Arrived(digest, prepared);
    });
  });
}

void Packages::Arrived(const std::string& digest, const Result<Prepared>& prepared) {
  Slot* slot = slots_.at(digest).get();
  slot->thread.join();
  slot->thread = {};
  if (!prepared) return Fail(slot, prepared.error().message);
  if (trusted_.any()) {
    const auto trusted = trusted_.Check(prepared->package.signed_by);
    if (!trusted) return Fail(slot, prepared->package.name + ": " + trusted.error().message);
  }
  auto ready = std::make_shared<ReadyPackage>(prepared->package);
  ready->surroundings = surroundings_;
  ready->surroundings.middleware.merge(std::map(ready->manifest.middleware));  // the flags win
  slot->ready = std::move(ready);
  slot->files = prepared->files;
  const bool has_setup = !slot->ready->manifest.setup.empty();
  if (has_setup && slot->set_up != slot->ready->birth) return RunSetUp(digest);
  Finish(slot);
}

void Packages::RunSetUp(const std::string& digest) {
  Slot* slot = slots_.at(digest).get();
  Say(digest, LogStream::kAgent, "setting up " + slot->ready->name);
  slot->setting_up = std::make_unique<SetUp>(
      loop_, keeper_(), slot->ready->surroundings, slot->ready->manifest, slot->files->folder(),
      SetUp::Events{.line = [this, digest](LogStream stream,
                                           const std::string& line) { Say(digest, stream, line); },
                    .done =
                        [this, digest](const Result<Ok>& done) {
                          Slot* of = slots_.at(digest).get();
                          of->setting_up = nullptr;
                          const std::string name = of->ready->name;
                          if (!done)
                            return Fail(of, "the setup of " + name + ": " + done.error().message);
                          of->set_up = of->ready->birth;
                          Say(digest, LogStream::kAgent, name + " is set up");
                          Finish(of);
                        }});
}

void Packages::Finish(Slot* slot) {
  auto used = std::make_shared<const PackageInUse>(PackageInUse{slot->ready, slot->files});
  slot->files = nullptr;
  slot->in_use = used;
  Answer(slot, PackageInUsePtr(used));
}

void Packages::Fail(Slot* slot, const std::string& why) {
  slot->ready = nullptr;
  slot->files = nullptr;
  slot->failure = why.substr(0, kPackageReason);
  slot->failed_until = steady_clock::now() + kFailedFor;
  Answer(slot, Error{Code::kFailedPrecondition, Reason::kNone, slot->failure});
}

void Packages::Answer(Slot* slot, const Result<PackageInUsePtr>& answer) {
  const auto waiting = std::exchange(slot->waiting, {});
  for (const auto& [claim, wants] : waiting) wants.done(answer);
}

void Packages::Say(const std::string& digest, LogStream stream, const std::string& line) {
  const auto found = slots_.find(digest);
  if (found == slots_.end()) return;
  for (const auto& [claim, wants] : found->second->waiting) wants.line(stream, line);
}

// In a thread of its own -----------------------------------------------------------------------

Result<Packages::Prepared> Packages::Work(const v1::PackageRef& ref) {
  const std::string name = RefText(ref);
  const auto failed = [&name](const std::string& what, const Error& error) {
    return Error{error.code, error.reason, name + " cannot be " + what + ": " + error.message};
  };
  auto files = cache_.Get(
      ref.digest(), [&](const std::string& path) { return Fetch(ref, path); },
      [this] { return canceller_.cancelled(); });
  if (!files) return failed("fetched", files.error());
  const std::string& folder = (*files)->folder();
  const auto text = ReadWholeFile(folder + "/" + std::string(kManifestName));
  if (!text) return failed("read", text.error());
  // A program that is not on our PATH is missed by the workers that need it alone.
  const ProgramFinder find = [&folder](const std::string& word) -> Result<std::string> {
    auto program = ProgramsOf(folder)(word);
    return program || word.find('/') != word.npos ? program : Result<std::string>(word);
  };
  std::vector<Diagnostic> diagnostics;
  auto manifest = ParseManifest(*text, kManifestName, find, &diagnostics);
  if (!manifest || HasErrors(diagnostics)) {
    const std::string why = diagnostics.empty() ? "its manifest is wrong" : Format(diagnostics[0]);
    return failed("read", {Code::kInvalidArgument, Reason::kNone, why});
  }
  if (manifest->FullName() != name) {
    return failed("used",
                  {Code::kDataLoss, Reason::kNone, "it says that it is " + manifest->FullName()});
  }
  for (Worker& worker : manifest->workers) worker.folder = folder;
  Prepared prepared{{.name = name,
                     .manifest = *std::move(manifest),
                     .surroundings = {},
                     .birth = (*files)->birth(),
                     .signed_by = {}},
                    *files};
  if (!trusted_.any()) return prepared;
  auto signed_by = SignersOf(ref, (*files)->hashes());
  if (!signed_by) return failed("verified", signed_by.error());
  prepared.package.signed_by = *std::move(signed_by);
  return prepared;
}

Result<std::vector<PublicKey>> Packages::SignersOf(const v1::PackageRef& ref,
                                                   const ArchiveHashes& hashes) {
  v1::GetPackageRequest request;
  request.set_namespace_(name_space_);
  request.set_package(ref.name());
  request.set_version(ref.digest());
  const auto known = client_.packages().GetPackage(request);
  if (!known) return known.error();
  std::vector<std::string> signatures;
  for (const v1::Signature& one : known->signatures()) signatures.push_back(one.text());
  return KeysOf(signatures, hashes);
}

// Goes on where a stream broke.
Result<Ok> Packages::Fetch(const v1::PackageRef& ref, const std::string& path) {
  const auto begun = steady_clock::now();
  loop_.Post([this, ref] {
    Say(ref.digest(), LogStream::kAgent, "fetching " + RefText(ref) + ", " + ref.digest());
  });
  v1::FetchPackageRequest request;
  request.set_namespace_(name_space_);
  request.set_package(ref.name());
  request.set_version(ref.digest());
  std::ofstream file(path, std::ios::binary);
  uint64_t bytes = 0;
  Backoff backoff;
  auto heard = begun;
  while (file) {
    request.set_offset(bytes);
    const auto fetched = client_.packages().FetchPackage(
        request,
        [&](const v1::FetchPackageResponse& piece) {
          file << piece.data();
          bytes += piece.data().size();
          heard = steady_clock::now();
          backoff.Reset();
          return file.good() && bytes <= limits::kArchive;
        },
        &canceller_);
    if (fetched) break;
    const bool again = Passing(fetched.error()) && steady_clock::now() - heard < kFetchPatience;
    if (!again || canceller_.SleepFor(backoff.Next())) return fetched.error();
  }
  file.close();
  if (!file) {
    return Error{Code::kUnavailable, Reason::kNone,
                 "cannot write " + path + ": " + std::strerror(errno)};
  }
  const std::chrono::duration<double> took = steady_clock::now() - begun;
  loop_.Post([this, ref, bytes, took] {
    Say(ref.digest(), LogStream::kAgent,
        "fetched " + RefText(ref) + ", " + SizeText(bytes) + " in " + SecondsText(took));
  });
  return Ok{};
}

}  // namespace dfsmr::cli
