// What commands leave behind in their folders. A command may have put anything in the place of what
// it was given: nothing here waits for it, follows it out of the folder, or trusts its size.
#pragma once

#include <string>

#include "dcli/system/process.h"
#include "fsm/base/result.h"

namespace dfsmr::cli {

// The text of the regular file `name` in `folder` (an open directory); empty when there is nothing
// of that name. Fails, telling what is there instead, and when it is larger than `most` bytes,
// which are the most that a report may have. `what` names the file in errors.
Result<std::string> ReadLeft(const Descriptor& folder, const std::string& name, size_t most,
                             const std::string& what);

// Deletes a folder with all that is in it, whatever a command has done to its modes and however
// deep it is. A symbolic link in its place is deleted itself.
void DeleteFolder(const std::string& path);

}  // namespace dfsmr::cli
