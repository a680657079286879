package sqlenrich.standins

import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/** Local files, whose permissions Java sets: Hadoop without its native library starts `chmod` for each file and folder. */
class LocalFiles extends LocalFileSystem(new RawFiles)

class RawFiles extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = {
    val letters = Seq(permission.getUserAction, permission.getGroupAction, permission.getOtherAction).map(_.SYMBOL)
    Files.setPosixFilePermissions(pathToFile(path).toPath, PosixFilePermissions.fromString(letters.mkString))
  }
}
