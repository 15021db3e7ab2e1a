"""helm and kubectl, as an admin calls them, for one cluster."""
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from bench.server import ROOT

from kube.cluster import Cluster
from kube.start import programs_of

CHART = ROOT / "deploy" / "helm" / "gpufairy"
LONGEST_S = 120.0


class CommandFailed(AssertionError):
    """With what it said."""


@dataclass(frozen=True)
class Admin:
    cluster: Cluster
    folder: Path

    def kubectl(self, *words: str, said: str | None = None) -> str:
        return self._run(programs_of("kubectl")["kubectl"], *words, said=said)

    def helm(self, *words: str, values: dict[str, Any] | None = None) -> str:
        """In the chart's folder, with these values beside what the words say."""
        path = self.folder / "values.json"
        path.write_text(json.dumps(values or {}))
        return self._run(programs_of("helm")["helm"], *words, *(["--values", str(path)] if values else []))

    def rendered(self, *words: str, namespace: str = "lab", values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        text = self.helm("template", "gpufairy", ".", "--namespace", namespace, *words, values=values)
        return [document for document in yaml.safe_load_all(text) if document]

    def _run(self, program: Path, *words: str, said: str | None = None) -> str:
        env = {"KUBECONFIG": str(self.cluster.kubeconfig), "PATH": os.environ["PATH"], "HOME": str(self.folder)}
        done = subprocess.run([program, *words], env=env, cwd=CHART, input=said, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        if done.returncode != 0:
            raise CommandFailed(f"{program.name} {' '.join(words)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        return done.stdout
