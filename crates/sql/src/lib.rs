//! (see ARCHITECTURE.md)
mod plpgsql;
