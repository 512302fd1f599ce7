-- In place of the script, which is yet to come.
return {}
