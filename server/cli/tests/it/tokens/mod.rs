//! The authorization server without its pages, over real HTTP: clients register, codes and refresh tokens become access
//! tokens, and tokens end; what is wrong is refused in the words of the specification.

mod desk;
mod ending;
mod faults;
mod forged;
mod redeeming;
mod refreshing;
mod registering;
mod rotating;
