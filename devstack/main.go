// Command waypost-dev runs all of Waypost in one process, for trying it out.
package main

import (
	"os"

	"waypost/devstack/command"
)

func main() {
	os.Exit(command.Run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
