"""Where the program begins: until the command line can report Ctrl-C, it ends the process as it does any program."""

import signal
import sys


def main() -> None:
    early = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else whoever started us wants it ignored
    if early:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from adderclaw.channels import cli

    try:
        if early:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.main()
    except KeyboardInterrupt:  # while it was reported that another one came
        sys.exit(130)
