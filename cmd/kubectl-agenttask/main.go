// Command kubectl-agenttask is a kubectl plugin: on the PATH, it is called as `kubectl agenttask`.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/agentloop-dev/agenttask-operator/internal/cli"
	"github.com/agentloop-dev/agenttask-operator/internal/loop"
)

func main() {
	if err := cli.Run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, loop.Visible(err.Error()))
		os.Exit(1)
	}
}
