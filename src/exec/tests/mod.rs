mod faults;
mod orders;
mod scripted;
mod shuttled;
mod simulated;
