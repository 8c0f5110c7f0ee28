//! Children and signals: how one step is started, waited for and stopped.
