// What build.js makes: modules of app.js that more.js has, too.
declare module "shared";
