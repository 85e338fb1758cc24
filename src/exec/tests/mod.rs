mod faults;
mod orders;
mod scripted;
mod short_jobs;
mod shuttled;
mod simulated;
