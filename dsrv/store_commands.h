// dsrv migrate and dsrv store: what is done to a store that nobody serves.
#pragma once

namespace dfsmr {

// dsrv migrate --from DIR|URL --to DIR|URL. Returns the status of the process: 0 done, 1 refused or
// failed, 2 usage, 130 interrupted.
int RunMigrate(int argc, char** argv);
// dsrv store renew|unmark URL. The same.
int RunStoreCommand(int argc, char** argv);

}  // namespace dfsmr
