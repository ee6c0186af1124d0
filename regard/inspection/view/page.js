/** Starts the studio on the page that the server gives. */

import { startLive } from "./studio.js";

startLive(document.getElementById("studio"));
