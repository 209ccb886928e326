#include "dcli/package/package.h"

#include <algorithm>

#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

struct Action {
  std::string name;
  int (*run)(Context& context, const PackageOptions& options);
  std::string places;  // for the usage line
  size_t least;
  size_t most;
  std::vector<std::string> flags;
};

constexpr size_t kMany = SIZE_MAX;

const std::vector<Action>& Actions() {
  static const std::vector<Action> kActions = {
      {"new", NewPackage, "NAME", 1, 1, {"--plan"}},
      {"check", CheckPackages, "FOLDER|FILE...", 1, kMany, {}},
      {"build", BuildPackage, "FOLDER", 1, 1, {"--out", "--version"}},
      {"dev",
       DevelopPackages,
       "FOLDER...",
       1,
       kMany,
       {"--poll", "--no-agent", "--env-file", "--adopt", "--force"}},
      {"diff", DiffPackages, "A B", 2, 2, {}},
      {"sign", SignPackage, "FILE|P@V", 1, 1, {"--key"}},
      {"verify", VerifyPackage, "FILE|P@V", 1, 1, {"--allowed-signers"}},
      {"push",
       PushPackages,
       "FOLDER|FILE...",
       1,
       kMany,
       {"--sign-with", "--activate", "--percent", "--if-active", "--adopt", "--force", "--note",
        "--dry-run"}},
      {"activate",
       ActivatePackage,
       "P@V",
       1,
       1,
       {"--percent", "--if-active", "--adopt", "--force", "--note", "--dry-run"}},
      {"rollback",
       RollbackPackage,
       "P",
       1,
       1,
       {"--if-active", "--adopt", "--force", "--note", "--dry-run"}},
      {"deactivate",
       DeactivatePackage,
       "P",
       1,
       1,
       {"--if-active", "--force", "--note", "--dry-run"}},
      {"list", ListPackages, "[P]", 0, 1, {}},
      {"show", ShowPackage, "P[@V]", 1, 1, {"--files", "--history"}},
      {"cat", CatPackage, "P[@V] PATH", 2, 2, {}},
      {"pull", PullPackage, "P[@V]", 1, 1, {"--out"}},
      {"remove", RemovePackage, "P@V | P --keep N", 1, 1, {"--keep", "--dry-run"}},
  };
  return kActions;
}

std::vector<std::string> FlagsOf(const PackageOptions& options) {
  std::vector<std::string> given;
  if (options.plan) given.emplace_back("--plan");
  if (!options.out.empty()) given.emplace_back("--out");
  if (!options.version.empty()) given.emplace_back("--version");
  if (!options.key.empty()) given.emplace_back("--key");
  if (!options.allowed_signers.empty()) given.emplace_back("--allowed-signers");
  if (!options.sign_with.empty()) given.emplace_back("--sign-with");
  if (options.activate) given.emplace_back("--activate");
  if (!options.percent.empty()) given.emplace_back("--percent");
  if (!options.if_active.empty()) given.emplace_back("--if-active");
  if (options.adopt) given.emplace_back("--adopt");
  if (options.force) given.emplace_back("--force");
  if (!options.note.empty()) given.emplace_back("--note");
  if (options.dry_run) given.emplace_back("--dry-run");
  if (options.files) given.emplace_back("--files");
  if (options.history) given.emplace_back("--history");
  if (!options.keep.empty()) given.emplace_back("--keep");
  if (options.poll) given.emplace_back("--poll");
  if (options.no_agent) given.emplace_back("--no-agent");
  if (!options.env_file.empty()) given.emplace_back("--env-file");
  return given;
}

}  // namespace

int Package(Context& context, const PackageOptions& options) {
  std::vector<std::string> names;
  for (const Action& action : Actions()) {
    names.push_back(action.name);
    if (action.name != options.action) continue;
    if (options.places.size() < action.least || options.places.size() > action.most) {
      return context.Fail(kBadUsage, "usage: dcli package " + action.name + " " + action.places);
    }
    for (const std::string& flag : FlagsOf(options)) {
      if (std::ranges::find(action.flags, flag) != action.flags.end()) continue;
      return context.Fail(kBadUsage, flag + " is not for package " + action.name);
    }
    return action.run(context, options);
  }
  return context.Fail(kBadUsage, "there is no package " + options.action +
                                     DidYouMean(options.action, names) + "; there are " +
                                     Join(names, ", "));
}

}  // namespace dfsmr::cli
