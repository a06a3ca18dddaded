//! QueCC's options as a name such as `quecc:execution=early` chooses them.

use concurrency::{Isolation, OptionValues, Options, ProtocolInfo, ProtocolOption};
use procedure::analysis::Abortable;

use super::mutant::Mutant;
use super::program::Program;

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "quecc",
    paper: "Qadah, Sadoghi: QueCC, Middleware 2018; Qadah: thesis, Purdue 2021",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: false,
    options: &[
        ProtocolOption {
            name: "execution",
            values: OptionValues::OneOf(&["speculative", "early", "conservative"]),
            what: "which tentative writes others may see: all, those that only an overflow can undo, \
                   none",
        },
        ProtocolOption {
            name: "cutting",
            values: OptionValues::OneOf(&["fitting", "always"]),
            what: "whether what may be rolled back is cut only in blocks where hardly any \
                   transaction has to run in one piece, which costs more beside it, and what \
                   planners would have to read rows for not at all",
        },
        ProtocolOption {
            name: "reads",
            values: OptionValues::OneOf(&["queued", "snapshot"]),
            what: "whether transactions that only read stand in queues or read the block before",
        },
        ProtocolOption {
            name: "planning",
            values: OptionValues::OneOf(&["unpipelined", "pipelined"]),
            what: "whether a block is planned while the one before it runs",
        },
        ProtocolOption {
            name: "queue",
            values: OptionValues::Integer { min: 16, max: 65_536, default: 512 },
            what: "fragments beyond which a queue's range is split",
        },
    ],
};

/// What was chosen when the protocol was named.
#[derive(Clone, Copy, Debug)]
pub struct Modes {
    /// The worst that a transaction may come to whose fragments run apart.
    pub cuts_up_to: Abortable,
    /// Those that may be rolled back, too, whatever the block has beside them, and those of which
    /// planners read rows.
    pub always_cuts: bool,
    pub snapshot_reads: bool,
    pub pipelined: bool,
    pub queue_capacity: usize,
    pub mutant: Option<Mutant>,
}

impl Modes {
    pub fn of(options: &Options) -> Modes {
        Modes {
            cuts_up_to: match options {
                o if o.is(&INFO, "execution", "conservative") => Abortable::Never,
                o if o.is(&INFO, "execution", "early") => Abortable::Arithmetic,
                _ => Abortable::Guard,
            },
            always_cuts: options.is(&INFO, "cutting", "always"),
            snapshot_reads: options.is(&INFO, "reads", "snapshot"),
            pipelined: options.is(&INFO, "planning", "pipelined"),
            queue_capacity: options.number(&INFO, "queue") as usize,
            mutant: options.mutant.and_then(Mutant::by_name),
        }
    }

    /// A transaction of which none may see anything before it is through runs in one piece: its
    /// entries are tokens, which hold their queues up until it is certain.
    pub fn may_cut(&self, program: &Program) -> bool {
        program.abortable <= self.cuts_up_to
    }
}
