// Package exec runs external programs in activities: Command makes a Cmd, and Cmd.Run starts it, waits for it, and ends it with
// the activity's context.
//
//	out, err := exec.Command("ffmpeg", "-i", film, to).Run(ctx)
//
// # Ends
//
//	runs ──by itself──▶ code 0: Output                           ─┐
//	  │                 otherwise: *ExitError                     │ then what is left of
//	context done                                                  ├ its process group is killed
//	  └──SIGTERM to the group──▶ the whole group has ended, or    │
//	     the grace period is nearly over──▶ the context's cause  ─┘
//
// A program and all processes that it starts are one process group, and Run returns when none of them is left, with these exceptions:
//
//   - A process that leaves the group (setsid, a daemon) is neither signalled nor waited for, even if it holds the output open.
//   - A process in an uninterruptible system call (a dead NFS server) ends later: Run waits one second for it.
//   - Windows has neither groups nor SIGTERM: the program is killed at once, without its children.
//
// Run uses the activity's grace period (pawl.ActivityInfo.Grace) less a tenth, at most one second, so that it returns before the
// activity would be abandoned; without an activity the grace period is pawl.DefaultGrace. pawl.GraceExpired ends it early.
//
// # If the worker dies
//
// A worker that is killed (kill -9, out of memory) cannot clean up. On Linux the kernel kills the program then, by its
// parent-death signal. The kernel sends that signal when the thread ends that has started the program, not the process: so Run
// starts the program on a thread that it keeps until the program has ended. Not covered are the children of the program (they do
// not get the signal and should end with their parent), a program that is setuid or has file capabilities (the kernel drops the
// signal), and systems other than Linux. A supervisor that kills the whole cgroup, such as systemd or a container runtime, covers
// all of them.
package exec
