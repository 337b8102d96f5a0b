"""The modules and files that PyInstaller cannot see from the imports of arraybridge."""

import pkgutil

from arraybridge.compat import MODULES
from PyInstaller.utils.hooks import collect_data_files, collect_submodules

# They are in a folder that the package adds to its path, where PyInstaller does not look: as files
# they are found there.
of_path = {f"arraybridge.{module.name}" for module in pkgutil.iter_modules([MODULES])}
# Submodules that are imported by a name that is computed, and what Rust code imports.
hiddenimports = [*collect_submodules("arraybridge", lambda name: name not in of_path), "ml_dtypes"]
datas = collect_data_files("arraybridge")
datas += collect_data_files("arraybridge", True, includes=["compat/modules/*.py"])
