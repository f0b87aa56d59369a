(* SPDX-License-Identifier: Apache-2.0 *)
(* Forks on command; parent and children allocate independently:
     fork         a child that works until its parent's death or a signal; answers its pid
     crowd N      N children that are almost idle until then; answers their number
     burst N      N children that end immediately; answers when all have ended
     work N TIMES N children, each of which calls child_work TIMES times; answers when all have ended
     daemon       leaves the terminal as a daemon does (fork, setsid, fork); answers the
                  daemon's pid, and ends
     execs FILE   a child that executes that program; answers its pid
     exit *)

let rest_s = 0.02 (* pause between pieces of work, each of which takes a fiftieth of it *)

(* Allocates 400,000 words. *)
let[@inline never] child_work () =
  for i = 1 to 100_000 do ignore (Sys.opaque_identity (i, i, i)) done

let[@inline never] parent_work () =
  for i = 1 to 100_000 do ignore (Sys.opaque_identity [ i; i ]) done

let rec work_while_parent parent =
  child_work ();
  ignore (Unix.select [] [] [] rest_s);
  if Unix.getppid () = parent then work_while_parent parent

let rec idle_while_parent parent =
  ignore (Unix.select [] [] [] 0.2);
  if Unix.getppid () = parent then idle_while_parent parent

let rec work_as_daemon () =
  child_work ();
  ignore (Unix.select [] [] [] rest_s);
  work_as_daemon ()

let answer pid = Printf.printf "{\"pid\":%d}\n%!" pid

let fork_child run =
  let parent = Unix.getpid () in
  match Unix.fork () with
  | 0 ->
    run parent;
    Unix._exit 0
  | pid -> pid

let rec reap () =
  match Unix.waitpid [ Unix.WNOHANG ] (-1) with
  | 0, _ -> ()
  | _ -> reap ()
  | exception Unix.Unix_error (Unix.ECHILD, _, _) -> ()

let become_daemon () =
  if Unix.fork () <> 0 then Unix._exit 0;
  ignore (Unix.setsid ());
  if Unix.fork () <> 0 then Unix._exit 0;
  answer (Unix.getpid ());
  work_as_daemon ()

let rec run () =
  parent_work ();
  ignore (Unix.select [] [] [] rest_s);
  match Handshake.poll_command () with
  | Some [ "exit" ] -> ()
  | Some [ "fork" ] -> answer (fork_child work_while_parent); run ()
  | Some [ "execs"; file ] -> answer (fork_child (fun _ -> Unix.execv file [| file; "600" |])); run ()
  | Some [ "burst"; n ] ->
    let children = List.init (int_of_string n) (fun _ -> fork_child ignore) in
    List.iter (fun pid -> ignore (Unix.waitpid [] pid)) children;
    answer (List.length children);
    run ()
  | Some [ "work"; n; times ] ->
    let work _ = for _ = 1 to int_of_string times do child_work () done in
    let children = List.init (int_of_string n) (fun _ -> fork_child work) in
    List.iter (fun pid -> ignore (Unix.waitpid [] pid)) children;
    answer (List.length children);
    run ()
  | Some [ "crowd"; n ] ->
    answer (List.length (List.init (int_of_string n) (fun _ -> fork_child idle_while_parent)));
    run ()
  | Some [ "daemon" ] -> become_daemon ()
  | Some _ | None -> reap (); run ()

let () =
  Handshake.ready ();
  run ()
